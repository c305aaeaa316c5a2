package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicelog/sluice/compat/cluster"
)

// broker is a server under test. Both kinds are started by the command line that argv holds, so that
// the time from exec to the first answer is measured alike.
type broker struct {
	name    string
	address string
	http    string // address of the profiles, ours alone
	argv    []string
	env     []string
	output  string
	child   *exec.Cmd
}

// newSluice prepares a broker of the binary at path, with its data under dir.
func newSluice(path, dir string) (*broker, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	web, err := freePort()
	if err != nil {
		return nil, err
	}
	b := &broker{name: "sluice", address: address, http: web, output: filepath.Join(dir, "sluice.log")}
	b.argv = []string{path, "serve"}
	for _, o := range []string{
		"node.id=1", "listeners=PLAINTEXT://" + address, "log.dirs=" + filepath.Join(dir, "data"),
		"sluice.http.listeners=" + web, "log.segment.delete.delay.ms=1000",
	} {
		b.argv = append(b.argv, "--override", o)
	}
	return b, nil
}

// buildSluice builds the binary as `make build` does.
func buildSluice(dir string) (string, error) {
	path := filepath.Join(dir, "sluice")
	c := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/sluice")
	c.Dir, c.Env = cluster.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// newKafka formats a directory with the tool of compat/diff, starts a broker there once, and takes
// over its command line.
func newKafka(dir string) (*broker, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	tool := os.Getenv("KAFKA_TOOL")
	if tool == "" {
		tool = filepath.Join(cluster.Root(), "../shared/tools/kafka/kafka")
	}
	_, port, _ := net.SplitHostPort(address)
	log, err := os.Create(filepath.Join(dir, "tool.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	run := func(args ...string) error {
		c := exec.Command(tool, args...)
		c.Stdout, c.Stderr = log, log
		return c.Run()
	}
	data := filepath.Join(dir, "kafka")
	if err := run("start", data, port, "log.segment.delete.delay.ms=1000"); err != nil {
		return nil, fmt.Errorf("start Kafka: %w, see %s", err, log.Name())
	}
	pid, err := os.ReadFile(filepath.Join(data, "pid"))
	if err != nil {
		return nil, err
	}
	line, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline")
	if err != nil {
		return nil, err
	}
	if err := run("stop", data); err != nil {
		return nil, fmt.Errorf("stop Kafka: %w, see %s", err, log.Name())
	}
	return &broker{
		name: "Kafka", address: address, output: filepath.Join(dir, "kafka.log"),
		argv: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"),
		env:  []string{"KAFKA_LOG_LEVEL=INFO"},
	}, nil
}

// freePort is a loopback address whose port and the next one were free: Kafka's controller takes
// the second.
func freePort() (string, error) {
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		port := first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		_ = first.Close()
		if err == nil {
			return first.Addr().String(), second.Close()
		}
	}
	return "", fmt.Errorf("no two free ports side by side")
}

func (b *broker) pid() int { return b.child.Process.Pid }

// start executes the broker and returns the time until it answered an ApiVersions request.
func (b *broker) start() (time.Duration, error) {
	out, err := os.OpenFile(b.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	b.child = exec.Command(b.argv[0], b.argv[1:]...)
	b.child.Env = append(os.Environ(), b.env...)
	b.child.Stdout, b.child.Stderr = out, out
	b.child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := b.child.Start(); err != nil {
		return 0, err
	}
	for time.Since(began) < time.Minute {
		if askVersions(b.address) == nil {
			return time.Since(began), nil
		}
		time.Sleep(time.Millisecond)
	}
	return 0, fmt.Errorf("%s: no answer within a minute, see %s", b.name, b.output)
}

// stop ends the broker in order.
func (b *broker) stop() {
	if b.child == nil {
		return
	}
	_ = b.child.Process.Signal(syscall.SIGTERM)
	_ = b.child.Wait()
	b.child = nil
}

// askVersions sends ApiVersions v0 on a new connection and waits for the answer.
func askVersions(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	request := binary.BigEndian.AppendUint32(nil, 10)
	request = append(request, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff) // key, version, correlation id, null client id
	if _, err := c.Write(request); err != nil {
		return err
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	if code := binary.BigEndian.Uint16(head[8:]); code != 0 {
		return fmt.Errorf("ApiVersions: error %d", code)
	}
	return nil
}

// withTopic makes a topic for the time of f. Its files are gone when it returns, so that every run
// begins with the same room in the page cache.
func (b *broker) withTopic(partitions int, config map[string]string, f func(topic string) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.address))
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	values := map[string]*string{}
	for k, v := range config {
		values[k] = &v
	}
	topic := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	if _, err := admin.CreateTopic(ctx, int32(partitions), 1, values, topic); err != nil {
		return fmt.Errorf("create a topic on %s: %w", b.name, err)
	}
	time.Sleep(time.Duration(1000+partitions) * time.Millisecond)
	runErr := f(topic)
	ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := admin.DeleteTopics(ctx, topic); err != nil && runErr == nil {
		return fmt.Errorf("delete a topic on %s: %w", b.name, err)
	}
	time.Sleep(2500 * time.Millisecond)
	return runErr
}
