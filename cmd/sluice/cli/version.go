package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/log/store"
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

// versionPage is the build, and what it is compatible with.
type versionPage struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Modified   bool   `json:"modified"` // built from a tree with changes
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	DiskFormat int    `json:"disk_format"`
	KafkaLevel string `json:"kafka_api_level"`
}

func (e *env) versionCommand() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the on-disk format and the level of Kafka's API",
		Example: `  sluice version
  sluice version -o wide
  sluice version -o json | jq .disk_format`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return show(e, form, listing[versionPage]{
				name: func(v versionPage) string { return v.Version }, single: true, text: versionText,
			}, []versionPage{versionOf()})
		},
	}
	outputFlag(cmd, &form, formTable)
	return cmd
}

func versionOf() versionPage {
	v := versionPage{
		Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		DiskFormat: store.FormatVersion, KafkaLevel: kafkaLevel,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func versionText(w io.Writer, wide bool, list []versionPage) {
	for _, v := range list {
		fmt.Fprintf(w, "sluice %s, on-disk format %d, Kafka API level %s\n", v.Version, v.DiskFormat,
			v.KafkaLevel)
		if wide {
			fmt.Fprintf(w, "%s %s commit %s\n", v.Go, v.Platform, v.Commit)
		}
	}
}
