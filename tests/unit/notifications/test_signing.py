"""Webhooks are signed according to the Standard Webhooks specification."""

import base64

from shared.notifications.webhooks import new_secret, signature_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_signature_equals_that_of_the_reference_libraries() -> None:
    headers = signature_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [SECRET]
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_key_signs() -> None:
    signatures = signature_headers("id", 1, b"{}", [SECRET, new_secret()])[
        "webhook-signature"
    ].split(" ")
    assert signatures[0] == signature_headers("id", 1, b"{}", [SECRET])["webhook-signature"]
    assert len(set(signatures)) == 2


def test_secrets_are_long_and_unique() -> None:
    secrets = {new_secret() for _ in range(10)}
    assert len(secrets) == 10
    assert all(secret.startswith("whsec_") for secret in secrets)
    assert {len(base64.b64decode(secret.removeprefix("whsec_"))) for secret in secrets} == {32}
