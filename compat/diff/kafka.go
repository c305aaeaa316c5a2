package diff

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kafkaTool is where the script that runs Apache Kafka is looked for, from the repository's root,
// unless KAFKA_TOOL names it.
const kafkaTool = "../shared/tools/kafka/kafka"

// kafka is a running Apache Kafka broker.
type kafka struct {
	tool, dir, address string
}

// startKafka formats a directory and starts a broker in it with the settings given.
func startKafka(root, dir, address string, settings []string) (*kafka, error) {
	tool := os.Getenv("KAFKA_TOOL")
	if tool == "" {
		tool = filepath.Join(root, kafkaTool)
	}
	k := &kafka{tool: tool, dir: filepath.Join(dir, "kafka"), address: address}
	_, port, _ := strings.Cut(address, ":")
	return k, k.command(append([]string{"start", k.dir, port}, settings...)...)
}

// command runs the script; a small heap is enough here and leaves memory to the rest of the machine.
func (k *kafka) command(arguments ...string) error {
	c := exec.Command(k.tool, arguments...)
	c.Env = append(os.Environ(), "KAFKA_HEAP=-Xms256M -Xmx512M")
	// Into a file, because the broker inherits the descriptor and a pipe would never end.
	out, err := os.Create(k.dir + ".out")
	if err != nil {
		return err
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	if err := c.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("kafka %s: %w\n%s", arguments[0], err, text)
	}
	return nil
}

func (k *kafka) Address() string { return k.address }

// Restart stops the broker cleanly and starts it again.
func (k *kafka) Restart() error {
	if err := k.command("stop", k.dir); err != nil {
		return err
	}
	return k.command("restart", k.dir)
}

func (k *kafka) stop() error { return k.command("stop", k.dir) }
