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
	if p.mu.draining {
		p.mu.Unlock()
		return
	}
	p.mu.draining = true
	for job := p.nextLocked(); job != nil; job = p.nextLocked() {
		p.mu.Unlock()
		job()
		p.mu.Lock()
	}
	p.mu.draining = false
	p.mu.wake.Broadcast()
	p.mu.Unlock()
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
		p.mu.Unlock()
		job()
		p.mu.Lock()
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
