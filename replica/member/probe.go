package member

import (
	"errors"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/liveness"
)

const (
	// ProbeFile is the file whose sync tells that the disk answers (ruling 11).
	ProbeFile  = "disk.probe"
	probeEvery = time.Second
)

// probe writes and syncs a small file again and again.
type probe struct {
	wake  chan struct{}
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
	timer clock.Timer
}

func (p *probe) start(m *Member) {
	p.stop, p.done = make(chan struct{}), make(chan struct{})
	if m.o.FS == nil {
		close(p.done)
		return
	}
	p.wake = make(chan struct{}, 1)
	p.wake <- struct{}{}
	p.timer = m.o.Clock.AfterFunc(probeEvery, func() {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	})
	go p.run(m)
}

func (p *probe) close() {
	if p.stop == nil {
		return
	}
	p.once.Do(func() { close(p.stop) })
	<-p.done
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p *probe) run(m *Member) {
	defer close(p.done)
	for {
		select {
		case <-p.stop:
			return
		case <-p.wake:
		}
		// A full disk is no disk that hangs: the sync of what is there is what counts.
		if err := touch(m.o.FS, path.Join(m.o.Dir, ProbeFile)); err == nil || vfs.IsNoSpace(err) {
			m.with(func(l *liveness.Machine) { l.DiskCycle(m.o.Clock.Now()) })
		} else if !errors.Is(err, fs.ErrNotExist) {
			m.log.Error("probe of the disk", "error", err)
		}
		p.timer.Reset(probeEvery)
	}
}

func touch(fsys vfs.FS, name string) error {
	f, err := vfs.Create(fsys, name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{1}, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// DiskAnswered tells that the disk has answered just now. It stands in for the probe where there is none,
// in a simulation.
func (m *Member) DiskAnswered() {
	m.with(func(l *liveness.Machine) { l.DiskCycle(m.o.Clock.Now()) })
}
