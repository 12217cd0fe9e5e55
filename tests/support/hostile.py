"""Hostile input values: numbers, dates, texts and JSON."""

from typing import Final

MANY_DIGITS: Final = "9" * 5_000
"""More digits than Python converts to a number (4,300)."""
NUMBERS: Final = (
    "0", "-0", "-1", "1.5", "1e400", "-1e400", "1e-400", "1e308", "NaN", "nan", "Infinity", "-inf",
    MANY_DIGITS, f"-{MANY_DIGITS}", "9" * 400, "99999999999999999999", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "0x10", "1_000", "+5", " 7 ",
    "1.", "١٢", "²", "½", "1e5", "true",
)  # fmt: skip
DATES: Final = (
    "9999-12-31", "9999-12", "9999", "0000", "0001", "0001-01-01", "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00+00:01",
    "2024-02-30", "2024-13", "99999-01-01", "-1-01-01", "9999-W53-7", "2024-01-01T24:00:00",
    "2024-01-01T00:00:60", "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+99:99",
    "2024-01-01T00:00:00.123456789123456789Z", "٢٠٢٤-01-01", f"{MANY_DIGITS}-01-01",
    "Wed, 21 Oct 2015 07:28:00 +99999999999999", f"Wed, 21 Oct 2015 07:28:00 +{MANY_DIGITS}",
    f"Wed, 21 Oct {MANY_DIGITS} 07:28:00 GMT", f"Wed, 21 Oct 2015 {MANY_DIGITS}:28:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 +2359", "Fri, 31 Dec 9999 23:59:59 -2359", "January 1, 9999", "December 9999",
    "1 Jan 99999999999999999999", "1e400d", f"{MANY_DIGITS}d", "99999999999d", ": : :", "Mon, ",
)  # fmt: skip
TEXTS: Final = (
    "", " ", "\t\n", "x" * 100_000, "../..", "%00", "%s%n", "{0.__class__}", "\r\nX-Header: y", "\x1b[31m",
    "\u202etxt.exe", "\ufeff", "\ufffd", "é" * 300, "🏳️‍🌈" * 100, "e\u0301" * 500, "'--", '"', "<script>alert(1)</script>",
    "[" * 10_000, "{" * 10_000, "null", "[]", "{}", "00000000-0000-0000-0000-000000000000", "http://[", "a@b",
    "http://a:99999999/", "=", ",", ";" * 1_000, "*", "\\", "$(id)", "`id`", "|", "#1", "--help",
)  # fmt: skip
UNSTORABLE: Final = ("\x00", "a\x00b", "\ud800", "a\udfffb", "\udcff")
"""Texts that PostgreSQL or UTF-8 cannot store."""
STRINGS: Final = (*NUMBERS, *DATES, *TEXTS, *UNSTORABLE)

JSON: Final = (
    b"", b"null", b"true", b"0", b'""', b"[]", b"{}", b"[[]]", b"[{}]", b"NaN", b"-Infinity", b"1e999", b"-1e999",
    MANY_DIGITS.encode(), f"-{MANY_DIGITS}".encode(), b"1e-999", b'{"a":', b"[" * 100_000, b'{"a":' * 50_000,
    b"[" * 900 + b"]" * 900, b'{"a":' * 900 + b"1" + b"}" * 900, b"[" * 60 + b"]" * 60, b"\xff\xfe", b"\xef\xbb\xbf{}",
    b'"\\ud800"', b'{"\\ud800": "\\udfff"}', b'"\\u0000"', b'{"a": 1, "a": 2}', b'{"": ""}', b"'a'", b"{'a': 1}",
    b"[" + b"1," * 100_000 + b"1]", b'"' + b"x" * 500_000 + b'"', b"<html></html>", b"\x00", b"[1e308, -1e308]",
    b'{"__proto__": {"a": 1}}', b'{"$ref": "#"}', b" " * 100_000 + b"{}",
)  # fmt: skip
"""Documents that are JSON or almost."""
