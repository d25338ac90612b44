package channels

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
)

func channel(name string, versions ...string) *v1alpha1.ReleaseChannel {
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.ImageRepository = "registry.example.com/cube"
	for _, v := range versions {
		c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{
			Version: v, Image: "registry.example.com/cube:v" + v, Digest: "sha256:" + v, StoreImage: "store@sha256:" + v,
		})
	}
	return c
}

// TestFromReturnsAllVersions with their images, and ignores invalid ones.
func TestFromReturnsAllVersions(t *testing.T) {
	got := From(channel("stable", "1.2.3", "latest", "1.10.0", "1.9.0"))
	var versions []string
	for _, r := range got.Releases {
		versions = append(versions, r.Version.String())
		text := r.Version.String()
		if r.Image != "registry.example.com/cube:v"+text || r.Digest != "sha256:"+text || r.StoreImage != "store@sha256:"+text {
			t.Errorf("release %+v", r)
		}
	}
	if len(versions) != 3 || got.Name != "stable" || got.Repository != "registry.example.com/cube" {
		t.Errorf("channel %s of %s with %v", got.Name, got.Repository, versions)
	}
	if head, ok := got.Head(); !ok || head.Version.String() != "1.10.0" {
		t.Errorf("head %v, %v", head, ok)
	}
	if _, ok := From(channel("empty")).Head(); ok {
		t.Error("an empty channel has a head")
	}
}

func TestList(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(channel("latest", "2.0.0"), channel("stable")).Build()
	all, err := List(t.Context(), api)
	if err != nil || len(all) != 2 || len(all[0].Releases) != 1 || len(all[1].Releases) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	broken := errors.New("connection refused")
	_, err = List(t.Context(), interceptor.NewClient(api, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	}))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestRunsRoundTrip through the history in a status.
func TestRunsRoundTrip(t *testing.T) {
	for _, text := range []string{"1.2.3", "0.0.0", "1.2.3-rc.1", "10.20.30-jdk.x-1"} {
		v, err := version.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		run := version.Run{
			Release: version.Release{Version: v, Image: "cube:v" + text, Digest: "sha256:1", StoreImage: "store@sha256:2"}, Channel: "stable",
		}
		got, err := FromRun(ToRun(run))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(run, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if _, err := FromRun(v1alpha1.VersionRun{Version: "latest"}); err == nil {
		t.Error("latest was parsed as a version")
	}
}
