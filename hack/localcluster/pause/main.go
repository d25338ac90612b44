// Command pause holds the namespaces of a pod: it sleeps until it is told to
// end, and collects processes that lost their parent when the pod shares its
// process namespace. localcluster puts it into the sandbox image, so that no
// image has to come from elsewhere.
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
