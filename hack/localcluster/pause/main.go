// Command pause holds the namespaces of a pod: it sleeps until it is signalled,
// and reaps orphaned processes if the pod shares its process namespace.
// localcluster builds the sandbox image from it, so that no image is pulled
// from elsewhere.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {

			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
		}
	}
}
