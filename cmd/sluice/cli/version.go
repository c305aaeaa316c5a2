package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// kafkaLevel is the release of Kafka whose APIs are served at their exact version ranges.
const kafkaLevel = "4.4"

// version is what the build says of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (e *env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the level of Kafka's API",
		Example: "  sluice version",
		Args:    cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			writeTo(e.stdout, "sluice %s, Kafka API level %s\n", version(), kafkaLevel)
		},
	}
}
