"""Fake credentials of each detected kind, split so that scanners ignore this file."""

import base64
import json

_LETTERS = "Zq7Xw2Vb9Tn4Rk6Pm3Jh8Gf5Dc1Ls0Ay7Eu2Io4Wt9Qx6Zr3Nv8Kb5Hm1Fj"


def _part(record: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(record).encode()).decode().rstrip("=")


JWT = ".".join((_part({"alg": "HS256"}), _part({"sub": "1234567890"}), _LETTERS[:43]))

KEY_LINES = [
    base64.b64encode(bytes((7 * n * n + 31 * k) % 256 for n in range(48))).decode()
    for k in range(6)
]
PEM = "\n".join(
    (
        "-----BEGIN RSA PRIVATE KEY-----",
        *KEY_LINES,
        "Qx9z2w==",
        "-----END RSA PRIVATE KEY-----",
    )
)

SHAPES = {
    "AWS access key": "AK" + "IAQ3EGRZ7XPL5MWN2T",
    "GitHub token": "gh" + "p_" + _LETTERS[:36],
    "fine-grained GitHub token": "github" + "_pat_" + _LETTERS[:40],
    "GitLab token": "gl" + "pat-" + _LETTERS[:20],
    "OpenAI key": "sk" + "-proj-" + _LETTERS[:40],
    "Anthropic key": "sk" + "-ant-api03-" + _LETTERS[:50],
    "Google key": "AI" + "za" + _LETTERS[:35],
    "Slack token": "xo" + "xb-123456789012-1234567890123-" + _LETTERS[:24],
    "Stripe key": "sk" + "_live_" + _LETTERS[:24],
    "SendGrid key": "S" + "G." + _LETTERS[:22] + "." + _LETTERS[10:53],
    "npm token": "np" + "m_" + _LETTERS[:36],
    "Hugging Face token": "h" + "f_" + _LETTERS[:34],
    "JSON web token": JWT,
    "Telegram token": "1234567890" + ":AA" + _LETTERS[:33],
    "Twilio key": "S" + "K0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "Discord token": "M" + _LETTERS[:23] + ".Gx7aQ2." + _LETTERS[:27],
    "Mailchimp key": "0a1b2c3d4e5f60718293a4b5c6d7e8f9" + "-us12",
    "PyPI token": "py" + "pi-AgEIcHlwaS5vcmc" + _LETTERS + _LETTERS[:20],
}
"""Detected by their shape, in any context."""

IN_CONTEXT = {
    "password in a URL": ("postgres://app:HERE@db.internal:5432/shop", "hunter2.Kx9"),
    "empty user in a URL": ("redis://:HERE@cache:6379/0", "r3d1sPw!"),
    "env file": ("DB_HOST=db\nDB_PASSWORD=HERE\nDEBUG=1\n", "t0pS3cr3t/Value"),
    "shell": ("$ export SERVICE_TOKEN=HERE && ./run", "9f8e7d6c5b4a"),
    "JSON setting": ('{"user": "app", "password": "HERE"}', "pA55w0rd!xyz"),
    "code": ("client_secret = 'HERE'", "Gx81_kPq02-Zz"),
    "AWS secret": (
        'aws_secret_access_key = "HERE"',
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzQ8vN2tLaB",
    ),
    "header": ("Authorization: Bearer HERE", "q9W8e7R6t5Y4u3I2o1P0"),
    "Azure": (
        "AccountName=x;AccountKey=HERE;EndpointSuffix=core",
        _LETTERS[:40] + "/+" + _LETTERS[:44] + "==",
    ),
}
"""Detected only by context: a text with HERE in it, and the secret for its place."""

EVERY_SECRET = [
    *SHAPES.values(),
    *(value for _, value in IN_CONTEXT.values()),
    *KEY_LINES,
]
