package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// changed is a deployment of the victim that is changed again and again. Its spec cannot take effect, so a change is
// complete when the controller has reported why.
type changed struct {
	client client.WithWatch
	key    client.ObjectKey
	// change makes the n-th change.
	change func(d *v1alpha1.Deployment, n int)

	made   int
	events watch.Interface
}

// change is a change of a deployment whose release channel does not exist.
func (w *world) change() *victim {
	c := &changed{
		client: w.objects, key: client.ObjectKey{Namespace: victimName, Name: "changed"},
		change: func(d *v1alpha1.Deployment, n int) {
			d.Spec.ReleaseChannel = "missing-" + strconv.Itoa(n)
			d.Spec.Model.ConfigMapRef = &v1alpha1.LocalReference{Name: "model"}
		},
	}
	return &victim{name: workChange, rate: 10, workers: 1, request: c.once, sequential: true}
}

// changeRemote is a change of the URL of a Git repository, which is read before the change is complete. The repository
// does not have the branch of the deployment.
func (w *world) changeRemote() *victim {
	c := &changed{
		client: w.objects, key: client.ObjectKey{Namespace: victimName, Name: "remote"},
		change: func(d *v1alpha1.Deployment, n int) {
			d.Spec.ReleaseChannel = "missing"
			d.Spec.Model.Git = &v1alpha1.GitSource{URL: w.git.url(strconv.Itoa(n)), Branch: "missing"}
		},
	}
	return &victim{name: workRemote, rate: 10, workers: 1, request: c.once, sequential: true}
}

// once changes the deployment and waits until the controller has observed the change. The first call creates it.
func (c *changed) once(ctx context.Context) error {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, Name: c.key.Name}}
	c.made++
	if c.events == nil {
		c.change(d, c.made)
		if err := c.client.Create(ctx, d); err != nil {
			return err
		}
		// The watch outlives the request.
		events, err := c.client.Watch(context.WithoutCancel(ctx), &v1alpha1.DeploymentList{}, client.InNamespace(c.key.Namespace), client.MatchingFields{"metadata.name": c.key.Name})
		if err != nil {
			return err
		}
		c.events = events
		return c.await(ctx, d.Generation)
	}
	before := d.DeepCopy()
	c.change(d, c.made)
	if err := c.client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return err
	}
	return c.await(ctx, d.Generation)
}

func (c *changed) await(ctx context.Context, generation int64) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: generation %d: %w", c.key.Name, generation, ctx.Err())
		case event, open := <-c.events.ResultChan():
			if !open {
				return errors.New("the watch has ended")
			}
			if d, ok := event.Object.(*v1alpha1.Deployment); ok && d.Status.ObservedGeneration >= generation {
				return nil
			}
		}
	}
}

// gitServer is a server of Git repositories with one branch each.
type gitServer struct{ address string }

// advertised is the answer of a server that knows only the first version of the protocol, up to the refs.
const (
	gitCommit     = "1000000000000000000000000000000000000000"
	gitAdvertised = "001e# service=git-upload-pack\n0000" + "0059" + gitCommit + " HEAD\x00symref=HEAD:refs/heads/main agent=test\n" + "003d" + gitCommit + " refs/heads/main\n"
)

func newGitServer(ctx context.Context) (*gitServer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serveGit(l, func(w io.Writer) { _, _ = io.WriteString(w, gitAdvertised+"0000") })
	return &gitServer{l.Addr().String()}, nil
}

// serveGit serves the refs of all repositories until the program exits.
func serveGit(l net.Listener, advertise func(io.Writer)) {
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		advertise(w)
	})}
	go func() { _ = server.Serve(l) }()
}

// url returns the URL of a repository.
func (s *gitServer) url(name string) string { return "http://" + s.address + "/" + name + ".git" }
