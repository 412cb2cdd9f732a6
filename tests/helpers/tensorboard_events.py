"""What TensorBoard would read."""

import struct


def read_events(folder):
    """By tag, the step and value of each summary in the event files of a folder."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        while data:  # a record: length, its checksum, the event, its checksum
            (length,) = struct.unpack("<Q", data[:8])
            event, data = Event.FromString(data[12 : 12 + length]), data[16 + length :]
            for value in event.summary.value:
                content = value.image if value.HasField("image") else value.simple_value
                found.setdefault(value.tag, []).append((event.step, content))
    return found
