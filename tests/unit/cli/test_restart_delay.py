from cli.local.engines import RestartDelay


def test_the_delay_doubles_up_to_its_limit() -> None:
    delay = RestartDelay()
    assert [delay.after(1.0) for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_the_delay_resets_after_a_long_run() -> None:
    delay = RestartDelay()
    for _ in range(5):
        delay.after(59.9)
    assert delay.after(60.0) == 0.2
    assert delay.after(1.0) == 0.4
