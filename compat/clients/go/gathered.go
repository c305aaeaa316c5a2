package main

import (
	"slices"
	"sync"
	"time"
)

// gathered is what a member has been given and has read; safe for use by several goroutines.
type gathered struct {
	mu       sync.Mutex
	assigned []int32
	values   []string
}

func (g *gathered) Assigned() []int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.assigned)
}

func (g *gathered) Received() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.values)
}

func (g *gathered) gained(partitions ...int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.assigned = append(g.assigned, partitions...)
}

func (g *gathered) lost(partitions ...int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.assigned = slices.DeleteFunc(g.assigned, func(p int32) bool { return slices.Contains(partitions, p) })
}

func (g *gathered) read(value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values = append(g.values, value)
}

// pace sleeps now and then so that sending all records takes about o.Slowly.
func pace(o ProduceOptions, i, n int) {
	const steps = 100
	if o.Slowly > 0 && n > steps && i%(n/steps) == 0 {
		time.Sleep(o.Slowly / steps)
	}
}
