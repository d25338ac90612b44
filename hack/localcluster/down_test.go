package main

import (
	"strings"
	"testing"
)

func TestStopOrder(t *testing.T) {
	got := stopOrder([]string{"etcd", "kube-apiserver", "kwok", "quoin-apiserver", "quoin-controller", "registry"})
	want := "quoin-apiserver quoin-controller kwok kube-apiserver registry etcd"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
