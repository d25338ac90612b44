package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// gitDeployments is the number of deployments of an attacker with its model in Git.
const gitDeployments = 40

// kubeClient returns a client of the Kubernetes API server with the attacker's permissions and no rate limit.
func (a *attacker) kubeClient() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.Attacker.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// millionRefs has the controller read a repository with a million refs outside of refs/heads, from a server that knows
// only the first version of the protocol.
func millionRefs(ctx context.Context, a *attacker) error {
	const refs = 1_000_000
	return a.remotes(ctx, func(w io.Writer) {
		_, _ = io.WriteString(w, gitAdvertised)
		chunk := make([]byte, 0, 64<<10)
		for i := range refs {
			chunk = append(chunk, "0044"+gitCommit+" refs/pull/"...)
			chunk = strconv.AppendInt(chunk, int64(refs+i), 10)
			chunk = append(chunk, "/head\n"...)
			if len(chunk) < 64<<10-100 && i < refs-1 {
				continue
			}
			if _, err := w.Write(chunk); err != nil {
				a.count("fetch ended by the controller")
				return
			}
			chunk = chunk[:0]
		}
		_, _ = io.WriteString(w, "0000")
		a.count("fetch of all refs")
	})
}

// hangingServers has the controller read repositories of a server that does not answer.
func hangingServers(ctx context.Context, a *attacker) error {
	return a.remotes(ctx, func(io.Writer) {
		a.count("fetch")
		<-ctx.Done()
	})
}

// remotes creates deployments with repositories of the attacker's server, and changes their URLs again and again, so that
// they are read again.
func (a *attacker) remotes(ctx context.Context, advertise func(io.Writer)) error {
	k, err := a.kubeClient()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serveGit(l, advertise)
	server := &gitServer{l.Addr().String()}
	remote := func(n int) *v1alpha1.Deployment {
		d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.Attacker.Name, Name: fmt.Sprint("git-", n%gitDeployments)}}
		d.Spec.ReleaseChannel = "missing"
		d.Spec.Model.Git = &v1alpha1.GitSource{URL: server.url(strconv.Itoa(n)), Branch: "missing"}
		return d
	}
	for n := range gitDeployments {
		if err := k.Create(ctx, remote(n)); err != nil {
			return err
		}
	}
	for n := gitDeployments; ctx.Err() == nil; n++ {
		d := remote(n)
		before := d.DeepCopy()
		before.Spec.Model.Git.URL = ""
		if err := k.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			a.count("error")
			continue
		}
		a.count("change of a URL")
	}
	return nil
}

// createAndDelete creates deployments and deletes them, as fast as the Kubernetes API server allows. Each exists long
// enough to be reconciled.
func createAndDelete(ctx context.Context, a *attacker) error {
	const window = 20
	k, err := a.kubeClient()
	if err != nil {
		return err
	}
	return repeat(16, func(ctx context.Context, a *attacker, _ int) string {
		var live []*v1alpha1.Deployment
		for ctx.Err() == nil {
			d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.Attacker.Name, Name: "d-" + strings.ToLower(rand.Text())}}
			d.Spec.ReleaseChannel = "missing"
			d.Spec.Model.ConfigMapRef = &v1alpha1.LocalReference{Name: "model"}
			if err := k.Create(ctx, d); err != nil {
				return "error"
			}
			a.count("created")
			if live = append(live, d); len(live) < window {
				continue
			}
			if err := k.Delete(ctx, live[0]); err != nil {
				return "error"
			}
			live = live[1:]
		}
		return "end"
	})(ctx, a)
}
