"""The events as an AsyncAPI 3 document: one channel per subject, one operation per service that sends or receives it.

`python -m shared.events.asyncapi FILE` writes it; with `--check` it fails if FILE is out of date. FastStream's own
generator creates a channel per subscription, which would show slots instead of subjects.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic.json_schema import models_json_schema

from shared.events.envelope import Event
from shared.events.models import EVENTS
from shared.events.topology import CONSUMERS, PUBLISHES, STREAM

Document = dict[str, Any]


def document() -> Document:
    _, definitions = models_json_schema(
        [(event, "serialization") for event in EVENTS],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Vigil events",
            "version": "1",
            "description": f"The events that Vigil's services exchange, on the JetStream stream {STREAM}.",
        },
        "defaultContentType": "application/json",
        "channels": {_key(event): _channel(event) for event in EVENTS},
        "operations": _operations(),
        "components": {
            "messages": {event.__name__: _message(event) for event in EVENTS},
            "schemas": definitions["$defs"],
        },
    }


def _key(event: type[Event]) -> str:
    return event.subject.replace(".", "_")


def _channel(event: type[Event]) -> Document:
    return {
        "address": event.subject,
        "messages": {event.__name__: {"$ref": f"#/components/messages/{event.__name__}"}},
    }


def _message(event: type[Event]) -> Document:
    return {
        "name": event.wire_type,
        "title": event.__name__,
        "summary": event.__doc__,
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "properties": {"Nats-Msg-Id": {"type": "string"}},
        },
        "payload": {"$ref": f"#/components/schemas/{event.__name__}"},
    }


def _operations() -> Document:
    sends = {
        f"{service}_sends_{_key(event)}": _operation("send", event)
        for service, events in PUBLISHES.items()
        for event in events
    }
    receives = {
        f"{service}_receives_{_key(event)}": _operation("receive", event)
        for service, consumer in CONSUMERS.items()
        for event in consumer.subscribes_to
    }
    return sends | receives


def _operation(action: str, event: type[Event]) -> Document:
    channel = f"#/channels/{_key(event)}"
    return {
        "action": action,
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{event.__name__}"}],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes or checks the AsyncAPI document.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date")
    args = parser.parse_args()
    content = yaml.safe_dump(document(), sort_keys=False, allow_unicode=True, width=100)
    if not args.check:
        args.file.write_text(content, encoding="utf-8")
    elif not args.file.exists() or args.file.read_text(encoding="utf-8") != content:
        sys.exit(f"{args.file} does not match the events; write it again with `make asyncapi`")


if __name__ == "__main__":
    main()
