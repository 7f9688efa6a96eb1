"""`foldline doctor`: what is wrong with a session or this installation, and, asked to, setting it right."""

from argparse import ArgumentParser
from collections.abc import Sequence

from .arguments import Handler, add_json


def doctor_command(parser: ArgumentParser) -> Handler:
    parser.add_argument(
        "sources", nargs="*", metavar="FILE|ID", help="sessions; without any, this installation is looked at"
    )
    parser.add_argument(
        "--repair", dest="repairs", action="store_true", help="set it right; what was there is kept beside it"
    )
    parser.add_argument("--network", action="store_true", help="also send the model a short request")
    add_json(parser)
    return doctor


def doctor(sources: Sequence[str], repairs: bool, network: bool, as_json: bool) -> int:
    from foldline.history import data_home

    from .doctor_report import Report, report_json, say_report, session_report
    from .output import say, say_json

    if sources:
        reports = [session_report(source, repairs) for source in sources]
    else:
        from .doctor_checks import examine_here, tidy  # slow, and of no use to a session

        done = tidy(data_home()) if repairs else ()
        reports = [Report("this installation", str(data_home()), "", examine_here(network), done)]
    if as_json:
        say_json(
            {"ok": all(report.ok for report in reports), "reports": [report_json(each) for each in reports]}
        )
    else:
        for number, report in enumerate(reports):
            if number:
                say()
            say_report(report)
    return 0 if all(report.ok for report in reports) else 1
