package compat;

import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** What is tried, and the lines that tell how it went. */
final class Check {
  private static int failures;

  private Check() {}

  /** Something that is tried; whatever it throws is its failure. */
  interface Body {
    void run() throws Exception;
  }

  static int failures() {
    return failures;
  }

  /** Tries one thing and prints its line. */
  static void that(String name, Body body) {
    long began = System.nanoTime();
    try {
      body.run();
      System.out.println("ok " + name);
    } catch (Exception | AssertionError e) {
      failures++;
      System.out.println("FAIL " + name + ": " + String.valueOf(cause(e)).replace('\n', ' '));
      e.printStackTrace();
    }
    System.err.printf("%6d ms %s%n", (System.nanoTime() - began) / 1_000_000, name);
  }

  static void same(Object want, Object got) {
    if (!Objects.equals(want, got)) {
      throw new AssertionError("want [" + shortened(want) + "], got [" + shortened(got) + "]");
    }
  }

  static void holds(boolean condition, Object why) {
    if (!condition) {
      throw new AssertionError(shortened(why));
    }
  }

  /** The body must end with this exception, either thrown or as the cause of a failed future. */
  static <E extends Throwable> E fails(Class<E> kind, Callable<?> body) {
    Object got;
    try {
      got = body.call();
    } catch (Exception e) {
      Throwable cause = cause(e);
      if (kind.isInstance(cause)) {
        return kind.cast(cause);
      }
      throw new AssertionError("want " + kind.getSimpleName() + ", got " + cause, e);
    }
    throw new AssertionError("want " + kind.getSimpleName() + ", got [" + shortened(got) + "]");
  }

  /** Repeats the question until it is answered with true; fails after some seconds. */
  static void soon(String what, int seconds, Callable<Boolean> question) throws Exception {
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    while (!question.call()) {
      if (System.nanoTime() > end) {
        throw new AssertionError("not within " + seconds + " s: " + what);
      }
      Thread.sleep(20);
    }
  }

  /** For threads: what is thrown there goes to standard error, and what it leads to fails elsewhere. */
  static void quietly(Body body) {
    try {
      body.run();
    } catch (Exception | AssertionError e) {
      e.printStackTrace();
    }
  }

  private static Throwable cause(Throwable e) {
    while ((e instanceof ExecutionException || e instanceof CompletionException) && e.getCause() != null) {
      e = e.getCause();
    }
    return e;
  }

  private static String shortened(Object o) {
    String s = String.valueOf(o);
    return s.length() > 800 ? s.substring(0, 800) + "..." : s;
  }
}
