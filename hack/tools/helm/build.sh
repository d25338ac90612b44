#!/bin/sh
# Builds the pinned Helm into the file given: hack/tools/helm/build.sh bin/helm
# About a minute on two cores the first time, a second when nothing has changed.
set -eu

case $1 in
/*) output=$1 ;;
*) output=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
version=$(go list -m -f '{{.Version}}' helm.sh/helm/v3)
# Unstamped, Helm takes every cluster that it does not see for Kubernetes 1.20, and refuses charts
# that ask for a newer one. Its client libraries are those of the cluster's minor version.
minor=$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2)
helm=helm.sh/helm/v3
CGO_ENABLED=0 go build -trimpath -o "$output" -ldflags "-s -w \
  -X $helm/internal/version.version=$version -X $helm/internal/version.metadata= \
  -X $helm/pkg/chartutil.k8sVersionMajor=1 -X $helm/pkg/chartutil.k8sVersionMinor=$minor \
  -X $helm/pkg/lint/rules.k8sVersionMajor=1 -X $helm/pkg/lint/rules.k8sVersionMinor=$minor" \
  $helm/cmd/helm
