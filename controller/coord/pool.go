package coord

import "sync"

// pool runs jobs on a fixed number of workers, or, without workers, on whoever adds them: then the
// first to add drains the queue, and jobs added meanwhile are run by it too.
type pool struct {
	workers int
	wg      sync.WaitGroup

	mu struct {
		sync.Mutex
		wake     *sync.Cond
		queue    []func()
		draining bool // without workers: somebody runs the queue
		closed   bool
	}
}

func newPool(workers int) *pool {
	p := &pool{workers: workers}
	p.mu.wake = sync.NewCond(&p.mu)
	for range workers {
		p.wg.Go(p.work)
	}
	return p
}

// add queues a job; after close it is dropped.
func (p *pool) add(job func()) {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return
	}
	p.mu.queue = append(p.mu.queue, job)
	if p.workers > 0 {
		p.mu.wake.Signal()
		p.mu.Unlock()
		return
	}
	begin := !p.mu.draining
	p.mu.draining = true
	p.mu.Unlock()
	if begin {
		p.drain()
	}
}

// drain runs the queue on the caller. A job that panics ends it, and the pool stays usable.
func (p *pool) drain() {
	p.mu.Lock()
	defer func() {
		p.mu.draining = false
		p.mu.wake.Broadcast()
		p.mu.Unlock()
	}()
	for job := p.nextLocked(); job != nil; job = p.nextLocked() {
		p.runUnlocked(job)
	}
}

// runUnlocked runs a job without the lock, and has it again when the job is over or panics.
func (p *pool) runUnlocked(job func()) {
	p.mu.Unlock()
	defer p.mu.Lock()
	job()
}

// nextLocked takes the oldest job, nil for none.
func (p *pool) nextLocked() func() {
	if len(p.mu.queue) == 0 || p.mu.closed {
		return nil
	}
	job := p.mu.queue[0]
	p.mu.queue[0] = nil
	p.mu.queue = p.mu.queue[1:]
	if len(p.mu.queue) == 0 {
		p.mu.queue = nil
	}
	return job
}

func (p *pool) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.mu.queue) == 0 && !p.mu.closed {
			p.mu.wake.Wait()
		}
		job := p.nextLocked()
		if job == nil {
			return
		}
		p.runUnlocked(job)
	}
}

// close lets the running jobs end, drops the others and waits for the workers.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.queue = nil
	p.mu.wake.Broadcast()
	for p.mu.draining {
		p.mu.wake.Wait()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
