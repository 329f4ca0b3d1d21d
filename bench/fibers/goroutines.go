// Table 1 of the SCALE paper on goroutines: goroutines ROW WAITING ROUNDS, a line of JSON.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const links = 10

func timed(operations int, body func()) float64 {
	begin := time.Now()
	body()
	return float64(time.Since(begin).Nanoseconds()) / float64(operations)
}

func yields(rounds int) {
	for i := 0; i < rounds/2; i++ {
		runtime.Gosched()
	}
}

// A channel with room for one is Go's binary semaphore.
func chain(rounds int) float64 {
	laps := rounds / links
	turns := make([]chan struct{}, links)
	for i := range turns {
		turns[i] = make(chan struct{}, 1)
	}
	finished := make(chan struct{})
	for place := 0; place < links; place++ {
		go func() {
			for lap := 0; lap < laps; lap++ {
				<-turns[place]
				if place == links-1 && lap == laps-1 {
					close(finished)
				} else {
					turns[(place+1)%links] <- struct{}{}
				}
			}
		}()
	}
	runtime.Gosched()
	return timed(laps*links, func() {
		turns[0] <- struct{}{}
		<-finished
	})
}

func node(depth int) int {
	if depth == 1 {
		return 1
	}
	var left, right int
	var both sync.WaitGroup
	both.Add(2)
	go func() { left = node(depth - 1); both.Done() }()
	go func() { right = node(depth - 1); both.Done() }()
	both.Wait()
	return 1 + left + right
}

func memory() float64 {
	const count = 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	gate := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(count)
	for i := 0; i < count; i++ {
		go func() { arrived.Done(); <-gate }()
	}
	arrived.Wait()
	runtime.ReadMemStats(&after)
	return float64(after.Sys-before.Sys) / count
}

func measure(row string, rounds int) float64 {
	switch row {
	case "mutex":
		var mutex sync.Mutex
		return timed(rounds, func() {
			for i := 0; i < rounds; i++ {
				mutex.Lock()
				mutex.Unlock()
			}
		})
	case "semaphore":
		semaphore := make(chan struct{}, 1)
		return timed(rounds, func() {
			for i := 0; i < rounds; i++ {
				semaphore <- struct{}{}
				<-semaphore
			}
		})
	case "yield":
		return timed(rounds, func() {
			done := make(chan struct{})
			go func() { yields(rounds); close(done) }()
			yields(rounds)
			<-done
		})
	case "chain":
		return chain(rounds)
	case "create":
		done := make(chan int)
		return timed(rounds, func() {
			for i := 0; i < rounds; i++ {
				go func() { done <- i }()
				<-done
			}
		})
	case "memory":
		return memory()
	case "tree":
		const depth = 20
		return timed(1<<depth-1, func() { node(depth) })
	}
	os.Exit(2)
	return 0
}

func main() {
	if len(os.Args) < 4 {
		os.Exit(2)
	}
	waiting, _ := strconv.Atoi(os.Args[2])
	rounds, _ := strconv.Atoi(os.Args[3])
	workers := 1
	if len(os.Args) > 4 {
		workers, _ = strconv.Atoi(os.Args[4])
	}
	runtime.GOMAXPROCS(workers)
	gate := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(waiting)
	for i := 0; i < waiting; i++ {
		go func() { arrived.Done(); <-gate }()
	}
	arrived.Wait()
	row, unit := os.Args[1], "ns"
	if row == "memory" {
		unit = "bytes"
	}
	value := measure(row, rounds)
	fmt.Printf("{\"program\": \"go\", \"row\": %q, \"waiting\": %d, \"workers\": %d, %q: %.3f}\n", row, waiting, workers, unit, value)
	close(gate)
}
