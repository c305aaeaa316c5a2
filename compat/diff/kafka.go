package diff

import (
	"fmt"
	"net"
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
func startKafka(root, dir string, settings []string) (*kafka, error) {
	address, err := freePorts()
	if err != nil {
		return nil, err
	}
	tool := os.Getenv("KAFKA_TOOL")
	if tool == "" {
		tool = filepath.Join(root, kafkaTool)
	}
	k := &kafka{tool: tool, dir: filepath.Join(dir, "kafka"), address: address}
	_, port, _ := strings.Cut(address, ":")
	return k, k.command(append([]string{"start", k.dir, port}, settings...)...)
}

// freePorts returns an address whose port and the next one nothing listens on: Kafka's controller
// takes the second.
func freePorts() (string, error) {
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		defer first.Close()
		port := first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err == nil {
			return first.Addr().String(), second.Close()
		}
	}
	return "", fmt.Errorf("no two free ports side by side")
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
