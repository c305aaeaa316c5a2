// Package admin is the HTTP listener: metrics, health and profiles.
//
//	/metrics           Prometheus text, made at each scrape from what the broker counts
//	/livez             200 while the process answers
//	/readyz[?verbose]  200 while clients are served, else 503 and why
//	/debug/pprof/      profiles, for loopback peers alone
//
//	node ──Serve(Source)──► collector ◄── scrape      api.Stats, engine, groups, server: all read
//	node ──Options.State──► /readyz, brokerstate      in place, nothing is counted twice
//
// Metric names are those that dashboards and alerts for Kafka ask for, where there is one; our own
// begin with sluice_ and count in seconds and bytes. Families is the one list of them: the
// collector, its tests and docs/metrics.md come from it.
//
// Invariants:
//
//	M1  A scrape has a bound: it waits groupsWithin for the coordinator, and reads maxLooks batches
//	    and maxLookBytes bytes of logs for time lags. What is left out has no series.
//	M2  Lag is never negative, and a time lag is that of the first unread record exactly.
//	M3  Before and after the broker serves, a scrape shows its state and its build, and no number of
//	    the broker's parts.
//
// Goroutines: one per address, and those of net/http for requests; Server.Stop ends them and waits.
package admin
