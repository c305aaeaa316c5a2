package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// BinaryVar names the environment variable that points at a binary built elsewhere; it saves the
// build where many test processes run.
const BinaryVar = "SLUICE_BIN"

// built is the binary of this test process: the tests of one process share one build.
var built struct {
	sync.Mutex
	path string
	err  error
	dir  string
}

// Root is the repository's top folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Binary returns the path of the sluice binary, built from this repository on first use or taken
// from SLUICE_BIN. It fails the test when the broker does not build.
func Binary(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path == "" && built.err == nil {
		built.path, built.err = buildBinary()
	}
	if built.err != nil {
		t.Fatalf("the broker does not build: %v", built.err)
	}
	return built.path
}

// buildBinary compiles ./cmd/sluice into a temporary directory of its own, because two test
// processes that wrote the same file would find it busy. Callers hold built's lock.
func buildBinary() (string, error) {
	if path := os.Getenv(BinaryVar); path != "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", "sluice-bin-")
	if err != nil {
		return "", err
	}
	built.dir = dir
	path := filepath.Join(dir, "sluice")
	command := exec.Command("go", "build", "-o", path, "./cmd/sluice")
	command.Dir = Root()
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/sluice: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

// Main runs a package's tests, then removes the binary they shared. A package that starts brokers
// calls it from TestMain: os.Exit(cluster.Main(m)).
func Main(m *testing.M) int {
	code := m.Run()
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	return code
}
