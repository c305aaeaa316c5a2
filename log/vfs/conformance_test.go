package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
)

// variants are all file systems, each with a directory to work in.
func variants(t *testing.T) map[string]func(t *testing.T) (FS, string) {
	return map[string]func(t *testing.T) (FS, string){
		"os": func(t *testing.T) (FS, string) {
			o := OS()
			t.Cleanup(func() { o.Close() })
			return o, t.TempDir()
		},
		"memory":       func(*testing.T) (FS, string) { return rooted(Memory()) },
		"power":        func(*testing.T) (FS, string) { return rooted(PowerLoss(1)) },
		"inject":       func(*testing.T) (FS, string) { return rooted(Inject(Memory())) },
		"inject on os": func(t *testing.T) (FS, string) { return Inject(OS()), t.TempDir() },
		"budget": func(*testing.T) (FS, string) {
			e := Inject(Memory())
			e.SetBudget(1 << 20)
			return rooted(e)
		},
	}
}

func rooted(fsys FS) (FS, string) {
	if err := fsys.MkdirAll("/data", 0o755); err != nil {
		panic(err)
	}
	return fsys, "/data"
}

// TestConformance runs one list of checks over every file system.
func TestConformance(t *testing.T) {
	checks := map[string]func(t *testing.T, fsys FS, dir string){
		"read and write": checkReadWrite,
		"flags":          checkFlags,
		"truncate":       checkTruncate,
		"rename":         checkRename,
		"remove":         checkRemove,
		"directories":    checkDirectories,
		"closed handle":  checkClosed,
		"lock":           checkLock,
		"sync":           checkSync,
		"whole files":    checkWholeFiles,
		"many at once":   checkConcurrent,
	}
	for name, make := range variants(t) {
		for check, fn := range checks {
			t.Run(name+"/"+check, func(t *testing.T) {
				fsys, dir := make(t)
				fn(t, fsys, dir)
			})
		}
	}
}

func create(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := Create(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if n, err := f.WriteAt([]byte(content), 0); n != len(content) || err != nil {
		t.Fatalf("write %q: %d, %v", content, n, err)
	}
	return f
}

func wantContent(t *testing.T, fsys FS, name, want string) {
	t.Helper()
	got, err := ReadFile(fsys, name, 1<<20)
	if err != nil || string(got) != want {
		t.Fatalf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func checkReadWrite(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	f := create(t, fsys, name, "hello")
	if f.Name() != name {
		t.Fatalf("name is %q, want %q", f.Name(), name)
	}
	if _, err := f.WriteAt([]byte("J"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("!"), 8); err != nil { // leaves a hole
		t.Fatal(err)
	}
	if size, err := f.Size(); size != 9 || err != nil {
		t.Fatalf("size %d, %v; want 9", size, err)
	}
	wantContent(t, fsys, name, "Jello\x00\x00\x00!")
	buf := make([]byte, 4)
	if n, err := f.ReadAt(buf, 7); n != 2 || !errors.Is(err, io.EOF) {
		t.Fatalf("read over the end: %d, %v; want 2, EOF", n, err)
	}
	if n, err := f.ReadAt(buf, 9); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read at the end: %d, %v; want 0, EOF", n, err)
	}
	if n, err := f.ReadAt(buf, 5); n != 4 || err != nil {
		t.Fatalf("read up to the end: %d, %v; want 4", n, err)
	}
	if _, err := f.ReadAt(buf, -1); err == nil {
		t.Fatal("a negative position was read")
	}
	if _, err := f.WriteAt(buf, -1); err == nil {
		t.Fatal("a negative position was written")
	}
	if _, err := f.WriteAt(nil, 100); err != nil {
		t.Fatal(err)
	}
	if size, _ := f.Size(); size != 9 {
		t.Fatalf("an empty write made the file %d bytes", size)
	}
}

func checkFlags(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	_, err := Open(fsys, name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = Create(fsys, path.Join(dir, "no", "a"))
	wantErr(t, err, fs.ErrNotExist)
	create(t, fsys, name, "hello")
	_, err = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	wantErr(t, err, fs.ErrExist)
	_, err = fsys.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o644)
	wantErr(t, err, fs.ErrInvalid)
	if _, err := fsys.OpenFile(dir, os.O_RDWR, 0); err == nil {
		t.Fatal("a directory was opened for writing")
	}
	r, err := Open(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("a read-only handle wrote")
	}
	w, err := fsys.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.ReadAt(make([]byte, 1), 0); err == nil {
		t.Fatal("a write-only handle read")
	}
	wantContent(t, fsys, name, "hello")
	create(t, fsys, name, "")
	wantContent(t, fsys, name, "")
}

func checkTruncate(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	f := create(t, fsys, name, "hello")
	for _, c := range []struct {
		n    int64
		want string
	}{{3, "hel"}, {6, "hel\x00\x00\x00"}, {6, "hel\x00\x00\x00"}, {0, ""}, {2, "\x00\x00"}} {
		if err := f.Truncate(c.n); err != nil {
			t.Fatal(err)
		}
		wantContent(t, fsys, name, c.want)
	}
	if err := f.Truncate(-1); err == nil {
		t.Fatal("a negative size was taken")
	}
}

func checkRename(t *testing.T, fsys FS, dir string) {
	a, b, sub := path.Join(dir, "a"), path.Join(dir, "b"), path.Join(dir, "sub")
	wantErr(t, fsys.Rename(a, b), fs.ErrNotExist)
	f := create(t, fsys, a, "one")
	create(t, fsys, b, "two")
	if err := fsys.Rename(a, a); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	wantContent(t, fsys, b, "one")
	_, err := fsys.Stat(a)
	wantErr(t, err, fs.ErrNotExist)
	if _, err := f.WriteAt([]byte("O"), 0); err != nil {
		t.Fatal(err)
	}
	wantContent(t, fsys, b, "One")
	wantErr(t, fsys.Rename(b, path.Join(dir, "no", "b")), fs.ErrNotExist)
	if err := fsys.MkdirAll(path.Join(sub, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	wantErr(t, fsys.Rename(b, sub), fs.ErrExist)
	if err := fsys.Rename(sub, b); err == nil {
		t.Fatal("a directory took a file's place")
	}
	if err := fsys.Rename(sub, path.Join(sub, "x", "y")); err == nil {
		t.Fatal("a directory was moved into itself")
	}
	if err := fsys.Rename(b, path.Join(sub, "x", "c")); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Rename(sub, path.Join(dir, "sub2")); err != nil {
		t.Fatal(err)
	}
	wantContent(t, fsys, path.Join(dir, "sub2", "x", "c"), "One")
}

func checkRemove(t *testing.T, fsys FS, dir string) {
	a, sub := path.Join(dir, "a"), path.Join(dir, "sub")
	wantErr(t, fsys.Remove(a), fs.ErrNotExist)
	f := create(t, fsys, a, "one")
	if err := fsys.Remove(a); err != nil {
		t.Fatal(err)
	}
	_, err := fsys.Stat(a)
	wantErr(t, err, fs.ErrNotExist)
	buf := make([]byte, 3)
	if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "one" {
		t.Fatalf("an open handle of a removed file read %q, %v", buf, err)
	}
	create(t, fsys, a, "two")
	if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "one" {
		t.Fatalf("an open handle of a replaced file read %q, %v", buf, err)
	}
	if err := fsys.MkdirAll(path.Join(sub, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	create(t, fsys, path.Join(sub, "x", "b"), "three")
	if err := fsys.Remove(sub); err == nil {
		t.Fatal("a directory with entries was removed")
	}
	for range 2 {
		if err := fsys.RemoveAll(sub); err != nil {
			t.Fatal(err)
		}
	}
	_, err = fsys.Stat(sub)
	wantErr(t, err, fs.ErrNotExist)
	if err := fsys.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(sub); err != nil {
		t.Fatal(err)
	}
}

func checkDirectories(t *testing.T, fsys FS, dir string) {
	for range 2 {
		if err := fsys.MkdirAll(path.Join(dir, "m", "n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	create(t, fsys, path.Join(dir, "z"), "12")
	create(t, fsys, path.Join(dir, "b"), "1")
	if err := fsys.MkdirAll(path.Join(dir, "b", "c"), 0o755); err == nil {
		t.Fatal("a directory was made below a file")
	}
	if _, err := Create(fsys, path.Join(dir, "b", "c")); err == nil {
		t.Fatal("a file was made below a file")
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s:%v", e.Name(), e.IsDir())
		if !e.IsDir() {
			text += fmt.Sprintf(":%d", info.Size())
		}
		got = append(got, text)
	}
	if want := "b:false:1 m:true z:false:2"; strings.Join(got, " ") != want {
		t.Fatalf("listing is %q, want %q", got, want)
	}
	_, err = fsys.ReadDir(path.Join(dir, "no"))
	wantErr(t, err, fs.ErrNotExist)
	if _, err := fsys.ReadDir(path.Join(dir, "b")); err == nil {
		t.Fatal("a file was listed")
	}
	st, err := fsys.Stat(path.Join(dir, "z"))
	if err != nil || st.Size() != 2 || st.IsDir() || st.Name() != "z" {
		t.Fatalf("stat gives %v, %v", st, err)
	}
	if st, err := fsys.Stat(dir); err != nil || !st.IsDir() {
		t.Fatalf("stat of the directory gives %v, %v", st, err)
	}
}

func checkClosed(t *testing.T, fsys FS, dir string) {
	f, err := Create(fsys, path.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, rerr := f.ReadAt(make([]byte, 1), 0)
	_, werr := f.WriteAt(make([]byte, 1), 0)
	_, serr := f.Size()
	for what, err := range map[string]error{
		"read": rerr, "write": werr, "size": serr, "truncate": f.Truncate(0), "sync": f.Sync(),
		"drop": f.DropCache(0, 0), "writeback": f.StartWriteback(0, 0), "close": f.Close(),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close gives %v, want %v", what, err, fs.ErrClosed)
		}
	}
}

func checkLock(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "LOCK")
	l, err := fsys.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fsys.Lock(name)
	wantErr(t, err, ErrLocked)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err == nil {
		t.Fatal("a lock was given back twice")
	}
	l, err = fsys.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkSync(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, path.Join(dir, "a"), strings.Repeat("x", 10000))
	if err := errors.Join(f.StartWriteback(0, 0), f.Sync(), f.DropCache(4096, 0), fsys.SyncDir(dir)); err != nil {
		t.Fatal(err)
	}
	if err := fsys.SyncFS(dir); err != nil && !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	wantContent(t, fsys, path.Join(dir, "a"), strings.Repeat("x", 10000))
	wantErr(t, fsys.SyncDir(path.Join(dir, "no")), fs.ErrNotExist)
	wantErr(t, fsys.SyncFS(path.Join(dir, "no")), fs.ErrNotExist)
	if free, err := fsys.Free(dir); err != nil || free <= 0 {
		t.Fatalf("free is %d, %v", free, err)
	}
}

func checkWholeFiles(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, "a")
	for _, text := range []string{"one", "", "three"} {
		if err := WriteFileAtomic(fsys, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, fsys, name, text)
	}
	if entries, err := fsys.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
	if _, err := ReadFile(fsys, name, 4); err == nil {
		t.Fatal("a file above the limit was read")
	}
	_, err := ReadFile(fsys, path.Join(dir, "no"), 4)
	wantErr(t, err, fs.ErrNotExist)
}

func checkConcurrent(t *testing.T, fsys FS, dir string) {
	var wg sync.WaitGroup
	f := create(t, fsys, path.Join(dir, "shared"), "")
	for g := range 4 {
		wg.Go(func() {
			own := path.Join(dir, fmt.Sprint(g))
			for i := range 50 {
				if err := WriteFileAtomic(fsys, own, []byte{byte(i)}); err != nil {
					t.Error(err)
				}
				if _, err := f.WriteAt([]byte{byte(g)}, int64(i*4+g)); err != nil {
					t.Error(err)
				}
				if _, err := f.ReadAt(make([]byte, 100), 0); err != nil && !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := ReadFile(fsys, path.Join(dir, "shared"), 1000)
	if err != nil || len(got) != 200 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for i, b := range got {
		if int(b) != i%4 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}

// TestOSFile: only the machine's own files may be given to sendfile.
func TestOSFile(t *testing.T) {
	for name, make := range variants(t) {
		fsys, dir := make(t)
		f := create(t, fsys, path.Join(dir, "a"), "x")
		if got := OSFile(f) != nil; got != (name == "os") {
			t.Errorf("%s: a file of the machine: %v", name, got)
		}
	}
}
