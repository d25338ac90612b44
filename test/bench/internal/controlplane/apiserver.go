// Package controlplane starts kube-apiserver with Quoin's CRDs, and `quoin apiserver` with it.
package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// connections is the number of idle connections kept to each server.
const connections = 64

// APIServer is kube-apiserver with its etcd, and the programs started with it.
type APIServer struct {
	env    *envtest.Environment
	config *rest.Config
	// Programs are the programs started with it, in order.
	Programs []*process.Process
	// Dir is a temporary folder.
	Dir string
	// Kubeconfig is a file in Dir with an administrator's credentials.
	Kubeconfig string
	// StartTimeout is how long StartQuoin and StartMetered wait for a program to be ready.
	StartTimeout time.Duration
	// Client has these credentials and no rate limit.
	client.Client
	// HTTP has the same credentials. URL is the server's address.
	HTTP *http.Client
	URL  string
}

// WithAPIServer starts a server, calls work, and then stops the server and its programs and removes the folder.
// An error includes the ends of their logs. KUBEBUILDER_ASSETS must be set, and the working directory must be the root
// of the repository. configure may change the flags of kube-apiserver and etcd.
func WithAPIServer(bench string, work func(*APIServer) error, configure ...func(*envtest.ControlPlane)) error {
	log.SetLogger(logr.Discard())
	measure.Progress("starting an API server")
	dir, err := os.MkdirTemp("", "quoin-bench-"+bench+"-")
	if err != nil {
		return err
	}
	s := &APIServer{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), StartTimeout: 30 * time.Second, env: &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}}
	for _, change := range configure {
		change(&s.env.ControlPlane)
	}
	defer s.stop()
	config, err := s.env.Start()
	if err != nil {
		return err
	}
	if err := s.connect(config); err != nil {
		return err
	}
	if err := work(s); err != nil {
		logs := ""
		for _, p := range s.Programs {
			logs += p.LogTail()
		}
		return fmt.Errorf("%w\n%s", err, logs)
	}
	return nil
}

func (s *APIServer) stop() {
	for _, p := range slices.Backward(s.Programs) {
		p.Stop()
	}
	_ = s.env.Stop()
	_ = os.RemoveAll(s.Dir)
}

// Config returns the configuration of Client.
func (s *APIServer) Config() *rest.Config { return s.config }

// Etcd returns the address of etcd, which uses no TLS.
func (s *APIServer) Etcd() string { return s.env.ControlPlane.Etcd.URL.String() }

func (s *APIServer) connect(config *rest.Config) error {
	config.QPS = -1
	s.config = config
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, authenticationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, rbacv1.AddToScheme, appsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if s.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	s.HTTP, s.URL = NewHTTPClient(trust), strings.TrimSuffix(config.Host, "/")
	return os.WriteFile(s.Kubeconfig, s.env.KubeConfig, 0o600)
}

// AddUser returns a client configuration of a new Kubernetes user without permissions and without a rate limit, and a file
// with the same credentials.
func (s *APIServer) AddUser(name string) (config *rest.Config, kubeconfig string, err error) {
	user, err := s.env.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		return nil, "", err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return nil, "", err
	}
	config, kubeconfig = rest.CopyConfig(user.Config()), filepath.Join(s.Dir, name+".kubeconfig")
	config.QPS = -1
	return config, kubeconfig, os.WriteFile(kubeconfig, text, 0o600)
}

// NewHTTPClient returns a client that keeps its connections open.
func NewHTTPClient(trust *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, TLSClientConfig: trust}}
}

// Namespaced returns the URL of a namespace in Quoin's API group.
func (s *APIServer) Namespaced(namespace string) string {
	return fmt.Sprintf("%s/apis/%s/namespaces/%s", s.URL, v1alpha1.GroupVersion, namespace)
}

// CreateAll creates objects in order.
func (s *APIServer) CreateAll(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := s.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// Start starts a program that WithAPIServer stops. It replaces one of the same name.
func (s *APIServer) Start(ctx context.Context, name, program string, args ...string) (*process.Process, error) {
	p, err := process.Start(ctx, name, s.Dir, program, args...)
	if err == nil {
		s.Programs = append(slices.DeleteFunc(s.Programs, func(other *process.Process) bool { return other.Name == name }), p)
	}
	return p, err
}
