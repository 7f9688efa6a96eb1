"""Probes: questions about a session asked of a real model, from each strategy's view (`eval --judge`).

points = points_of(runs)
exam = exam_of(points, window=llm.info.window)            # asks nobody anything
bill = estimate(exam)                                     # to be shown and agreed to
sitting = Sitting(exam, answerer=llm, judge=other)
await sitting.run()
result = Judgement(sitting.record)                        # also after a cancel or a failure
"""
