"""A member of a consumer group that reads and commits in a thread of its own."""

import threading
import traceback


class Member(threading.Thread):
    """Reads until it leaves. The consumer is made, used and closed in this thread alone.

    Each batch is committed before the next is asked for, so nothing may be seen twice by a group
    whose members leave in good order.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.seen = []  # the values read, in the order of reading
        self.assigned = []  # the partitions it has
        self.shuffles = 0  # how often partitions were given to it or taken away
        self.error = None
        self._over = threading.Event()
        self.start()

    def run(self):
        try:
            self.open()
            while not self._over.is_set():
                self.seen += self.step()
                now = sorted(self.holds())
                self.shuffles += now != self.assigned
                self.assigned = now
        except Exception as e:
            traceback.print_exc()
            self.error = e
        finally:
            self.shut()

    def leave(self):
        self._over.set()
        self.join(30)
        if self.is_alive():
            raise RuntimeError("the member did not close within 30 s")
        if self.error:
            raise self.error

    def open(self):
        """Makes the consumer and subscribes."""
        raise NotImplementedError

    def step(self):
        """Reads for a moment, commits what was read and returns its values."""
        raise NotImplementedError

    def holds(self):
        """The partitions that are assigned now."""
        raise NotImplementedError

    def shut(self):
        """Closes the consumer, which leaves the group."""
        raise NotImplementedError
