// Command go drives Go clients made by others through one scenario against one broker. It prints a
// line for each thing it tried and ends with status 1 when one of them failed.
//
//	BROKER=127.0.0.1:9092 go run . [CLIENT...]
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	clients := []struct {
		name string
		make func(address string) (Client, error)
	}{
		{"franz-go", newFranz},
		{"sarama", newSarama},
		{"sarama-newest", newSaramaNewest},
		{"kafka-go", newKafkaGo},
	}
	wanted := os.Args[1:]
	failed := false
	for _, c := range clients {
		if len(wanted) > 0 && !contains(wanted, c.name) {
			continue
		}
		client, err := c.make(os.Getenv("BROKER"))
		if err != nil {
			fmt.Printf("FAIL %s: %v\n", c.name, err)
			failed = true
			continue
		}
		s := &scenario{name: c.name, client: client}
		s.run()
		failed = failed || s.failed
	}
	if failed {
		os.Exit(1)
	}
}

// broker calls the script that starts and ends this run's broker: "restart" or "crash".
func broker(verb string) error {
	out, err := exec.Command(filepath.Join(os.Getenv("CLIENTS"), "broker"), verb).CombinedOutput()
	if err != nil {
		return fmt.Errorf("broker %s: %w: %s", verb, err, out)
	}
	return nil
}

// storedCodec reads the codec in the attributes of the first batch of partition 0, as it lies on disk.
func storedCodec(topic string) (string, error) {
	name := filepath.Join(os.Getenv("BROKER_DIR"), "data", topic+"-0", "00000000000000000000.log")
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var attributes [2]byte
	if _, err := f.ReadAt(attributes[:], 21); err != nil {
		return "", err
	}
	return []string{"none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7"}[attributes[1]&7], nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
