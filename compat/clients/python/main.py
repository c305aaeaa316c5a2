"""Drives one client library through the scenario against the broker at $BROKER.

What the library logs goes to standard error from the level $LOG on.
"""

import faulthandler
import logging
import os
import sys

import scenario


def make(name, address):
    """The adapter of a client; imported here, since not every environment has every library."""
    if name == "confluent":
        import with_confluent
        return with_confluent.Client(address)
    if name == "aiokafka":
        import with_aiokafka
        return with_aiokafka.Client(address)
    if name == "kafka-python":
        import with_kafka_python
        return with_kafka_python.Client(address)
    if name == "kafka-python-2.0":
        import with_kafka_python_2_0
        return with_kafka_python_2_0.Client(address)
    raise SystemExit(f"no client is named {name}")


def main():
    faulthandler.dump_traceback_later(100, exit=True)
    logging.basicConfig(level=os.environ.get("LOG", "CRITICAL"), format="%(asctime)s %(name)s %(message)s")
    name = sys.argv[1]
    failed = scenario.Scenario(name, make(name, os.environ["BROKER"])).run()
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # a thread that a client left behind must not hold the run


main()
