// Package docs keeps the documentation true: parts of it are made from the code, the rest is run.
//
//	api.Table, GAPS.md, differences.txt -> docs/compatibility.md
//	controller/config                   -> docs/configuration.md
//	admin.Families                      -> docs/metrics.md
//	sh blocks of README.md              -> run against a broker of this build
//
// A generated part stands between two marks in its document:
//
//	<!-- begin NAME: made from the code by make generate -->
//	<!-- end NAME -->
//
// TestGenerated fails when one is not what the code says; with -update it is written instead.
//
// TestReadme runs what needs kcat where kcat is installed, and with SLUICE_README also what needs a
// JVM or modules from outside; its value may name a folder with Kafka's kafka-*.sh.
//
// Goroutines: none of its own; the README's test runs shells and one broker, and ends them.
package docs
