"""Non-prose texts: encoded data, and non-Latin scripts."""

import base64
import random
from textwrap import fill

_RUSSIAN = (
    "Настройки изменены, поэтому перезапустите сервер. "
    "Тест упал, потому что часовой пояс считался по-старому. "
    "Журнал хранится по датам и через месяц сжимается. "
    "Сообщение об ошибке должно говорить, что делать дальше. "
)
_THAI = (
    "หลังจากเปลี่ยนการตั้งค่าแล้วต้องเริ่มเซิร์ฟเวอร์ใหม่เสมอ การทดสอบล้มเหลวเพราะเขตเวลายังคำนวณแบบเก่า "
    "ข้อความแสดงข้อผิดพลาดต้องบอกว่าเกิดอะไรขึ้นและต้องทำอะไรต่อไป "
)
_HINDI = (
    "सेटिंग बदलने के बाद सर्वर को फिर से शुरू करना ज़रूरी है। परीक्षण विफल हुआ क्योंकि समय क्षेत्र पुराने ढंग से गिना गया था। "
    "त्रुटि संदेश में लिखा होना चाहिए कि क्या हुआ और आगे क्या करना है। "
)
_TAMIL = (
    "அமைப்புகளை மாற்றிய பிறகு சேவையகத்தை மீண்டும் தொடங்க வேண்டும். "
    "நேர மண்டலம் பழைய முறையில் கணக்கிடப்பட்டதால் சோதனை தோல்வியடைந்தது. "
    "பிழைச் செய்தி என்ன நடந்தது, அடுத்து என்ன செய்ய வேண்டும் என்று சொல்ல வேண்டும். "
)


def samples() -> dict[str, str]:
    """Return the texts by kind, the same each time."""
    draw = random.Random("encoded")

    def encoded(size: int) -> str:
        return base64.b64encode(draw.randbytes(size)).decode()

    def token() -> str:
        pieces = (
            base64.urlsafe_b64encode(draw.randbytes(size)) for size in (27, 120, 64)
        )
        return b".".join(piece.rstrip(b"=") for piece in pieces).decode()

    return {
        "base64 on one line": encoded(30_000),
        "base64 in lines": base64.encodebytes(draw.randbytes(30_000)).decode(),
        "base64 of text": base64.b64encode((_RUSSIAN * 40).encode()).decode(),
        "web tokens": "\n".join(f"Authorization: Bearer {token()}" for _ in range(60)),
        "a git log": "\n\n".join(
            f"commit {draw.randbytes(20).hex()}\nAuthor: A. Writer <a@example.org>\n\n"
            f"    Mend the {n}th thing that broke"
            for n in range(150)
        ),
        "a lock file (npm)": "\n".join(
            f'    "node_modules/pkg-{n}": {{\n      "version": "{n % 9}.{n % 7}.{n % 11}",\n'
            f'      "integrity": "sha512-{encoded(64)}",\n      "dev": true\n    }},'
            for n in range(150)
        ),
        "a lock file (pip)": "\n".join(
            f"pkg-{n}=={n % 9}.{n % 5} \\\n    --hash=sha256:{draw.randbytes(32).hex()}"
            for n in range(150)
        ),
        "a dump of certificates": "\n".join(
            f"-----BEGIN CERTIFICATE-----\n{fill(encoded(900), 64)}\n-----END CERTIFICATE-----"
            for _ in range(20)
        ),
        "Russian": _RUSSIAN * 20,
        "Thai": _THAI * 20,
        "Hindi": _HINDI * 20,
        "Tamil": _TAMIL * 20,
    }
