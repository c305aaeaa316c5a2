// Package admin is the HTTP listener: metrics, health and profiles.
//
//	/metrics           Prometheus text, made at each scrape from what the broker counts
//	/livez             200 while the process answers
//	/readyz[?verbose]  200 while clients are served, else 503 and why
//	/debug/pprof/      profiles, for loopback peers alone
//
// Metric names are those that dashboards and alerts for Kafka ask for, where there is one; our own
// begin with sluice_ and count in seconds and bytes. docs/metrics.md lists them.
//
// Goroutines: one per listener, stopped and waited for by Server.Stop.
package admin
