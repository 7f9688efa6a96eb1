"""Sample texts for the token estimate, generated or from the Python installation."""

import json
import random
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics

from foldline.data import data_dir
from support.encoded_texts import samples
from support.job_files import sample

_JAPANESE = (
    "設定を変えたあとは、かならずサーバーを再起動してください。",
    "このファイルは二つの処理から同時に開かれるので、先に鍵を取る必要がある。",
    "テストが失敗した原因は、時刻の扱いが古いままだったからです。",
    "記録は日付ごとに分けて保存し、一か月たったら圧縮する。",
    "利用者の入力はそのまま画面に出さず、制御文字を取り除くこと。",
    "キャッシュが効くのは、前回と同じ並びで送った場合だけだ。",
    "エラーメッセージには、何が起きて次に何をすればよいかを書く。",
    "この関数は値を返すだけで、どこにも書き込みません。",
    "接続が切れても、途中までの答えは失われない。",
    "番号は一度使ったら二度と使わないと決めた。",
)
_KOREAN = (
    "설정을 바꾼 다음에는 반드시 서버를 다시 시작해야 합니다.",
    "이 파일은 두 프로세스가 동시에 열 수 있으므로 먼저 잠금을 얻어야 한다.",
    "테스트가 실패한 까닭은 시간대를 예전 방식으로 계산했기 때문이다.",
    "기록은 날짜별로 나누어 저장하고 한 달이 지나면 압축한다.",
    "사용자가 입력한 글자는 제어 문자를 뺀 뒤에 화면에 보여 준다.",
    "캐시는 앞서 보낸 것과 똑같은 순서로 보낼 때만 도움이 된다.",
    "오류 메시지에는 무슨 일이 있었고 무엇을 하면 되는지 적는다.",
    "이 함수는 값을 돌려줄 뿐이고 아무 데도 쓰지 않습니다.",
    "연결이 끊겨도 그때까지 받은 답은 사라지지 않는다.",
    "한 번 쓴 번호는 다시 쓰지 않기로 했다.",
)
_CHINESE = (
    "改完配置之后一定要重新启动服务，否则旧的值还会留在内存里。",
    "这个文件可能同时被两个进程打开，所以写之前要先拿到锁。",
    "测试失败的原因是时区还按老办法计算，跟文档里说的不一样。",
    "日志按日期分开存放，满一个月就压缩，谁也不会去手工删除它们。",
    "用户输入的内容不能原样显示，控制字符必须先去掉。",
    "只有顺序和上一次完全相同，缓存才会命中。",
    "错误信息要写清楚发生了什么、在哪里、接下来该怎么办。",
    "这个函数只返回结果，不往任何地方写东西。",
    "就算连接断了，已经收到的那一半回答也不会丢。",
    "编号用过一次就不再使用，这一点大家早就说好了。",
)
_EMOJI = "😀 🚀 🎉 👍🏽 👩‍💻 🇪🇺 ✅ ❌ ⚠️ 🧵 🪄 🐛 🔥 📦 🧪 👨‍👩‍👧‍👦 ❤️ 🏳️‍🌈 🤷🏻‍♀️ ⏱️"
_REMARKS = ("done", "tests pass", "careful here", "shipped", "needs a look", "fixed it")
_LENGTH = 40_000
"""Characters of a generated text."""


def texts() -> dict[str, str]:
    """Return the texts by kind."""
    library = Path(sysconfig.get_paths()["stdlib"])
    draw = random.Random("texts")
    records = [
        {
            "id": n,
            "name": f"order {n}",
            "paid": n % 3 == 0,
            "tags": ["new", f"lot-{n % 17}"],
            "sum": n * 1.25,
        }
        for n in range(400)
    ]
    return {
        "English (help texts of Python)": "\n".join(topics.values())[: 2 * _LENGTH],
        "Python (standard library)": _joined(
            [library / "argparse.py", library / "json" / "decoder.py"]
        ),
        "JSON, indented": json.dumps(records, indent=2),
        "JSON, compact": json.dumps(records, separators=(",", ":")),
        "JSON, Chinese as \\u escapes": json.dumps(
            _shuffled(_CHINESE, draw)[: _LENGTH // 4]
        ),
        "log lines": sample("log", _LENGTH),
        "Markdown": sample("md", _LENGTH),
        "hex digests": "\n".join(
            f"{draw.getrandbits(256):064x}  file_{n}.bin" for n in range(400)
        ),
        "Chinese": _shuffled(_CHINESE, draw),
        "Chinese (our prompts)": _joined(
            sorted((data_dir("prompts") / "zh").glob("*.md"))
        ),
        "Japanese": _shuffled(_JAPANESE, draw),
        "Korean": _shuffled(_KOREAN, draw),
        "emoji in a chat": _chat(draw),
        **samples(),
    }


def _shuffled(sentences: Sequence[str], draw: random.Random) -> str:
    text = ""
    while len(text) < _LENGTH // 2:
        text += "".join(draw.sample(sentences, len(sentences))) + "\n"
    return text


def _chat(draw: random.Random) -> str:
    return "\n".join(
        f"{draw.choice(_REMARKS)} {' '.join(draw.sample(_EMOJI.split(), 3))}"
        for _ in range(800)
    )


def _joined(paths: Sequence[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)[: 2 * _LENGTH]
