// Command sluice is a log broker that speaks Kafka's wire protocol, and its command line.
package main

import (
	"os"

	"github.com/sluicelog/sluice/cmd/sluice/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }
