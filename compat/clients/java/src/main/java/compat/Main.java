package compat;

/** Drives the broker at $BROKER with Kafka's Java client; prints a line for each thing that was tried. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    try (Broker broker = new Broker()) {
      new Topics(broker).run();
      new Configs(broker).run();
      new Producing(broker).run();
      new Reading(broker).run();
      new Members(broker).run();
      new GroupAdmin(broker).run();
      new Refusals(broker).run();
      new Restarts(broker).run();
    }
    System.exit(Check.failures() > 0 ? 1 : 0);
  }
}
