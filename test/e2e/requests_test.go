package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// address is where the API pods of a deployment's production answer: the virtual address of
// their Service, which kube-proxy makes work from this machine too.
func (t *tenant) address(ctx context.Context, deployment string) string {
	GinkgoHelper()
	services := &corev1.ServiceList{}
	Expect(t.all(ctx, services, client.MatchingLabels{
		v1alpha1.LabelEnvironment: v1alpha1.ProductionName(deployment), "app.kubernetes.io/component": "api",
	})).To(Succeed())
	Expect(services.Items).To(HaveLen(1))
	for _, port := range services.Items[0].Spec.Ports {
		if port.Name == "http" {
			return fmt.Sprintf("http://%s:%d", services.Items[0].Spec.ClusterIP, port.Port)
		}
	}
	Expect(services.Items[0].Spec.Ports).To(BeEmpty(), "no port is named http")
	return ""
}

// users ask again and again, several at once, and count what they get.
type users struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	answers  map[string]int // by the version that answered
	failures []string
}

// versionHeader is how both servers, the sample and the real one, say which image answers.
const versionHeader = "X-Data-Plane-Version"

const (
	usersAtOnce = 4
	// pauseOfUser keeps the connections that are closing below what the machine has ports for.
	pauseOfUser = 20 * time.Millisecond
)

// ask lets users send requests until the end of the journey. Each request is a connection
// of its own: one that is kept open would stay with its pod and not see who else is there.
func ask(ctx context.Context, url string) *users {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u := &users{stop: cancel, answers: map[string]int{}}
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range usersAtOnce {
		u.done.Go(func() {
			for ctx.Err() == nil {
				u.once(c, url)
				time.Sleep(pauseOfUser)
			}
		})
	}
	return u
}

func (u *users) once(c *http.Client, url string) {
	resp, err := c.Get(url)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.failures = append(u.failures, err.Error())
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		u.failures = append(u.failures, resp.Status)
		return
	}
	u.answers[resp.Header.Get(versionHeader)]++
}

// end stops the users and returns what they got.
func (u *users) end() (answers map[string]int, failures []string) {
	u.stop()
	u.done.Wait()
	return u.answers, u.failures
}
