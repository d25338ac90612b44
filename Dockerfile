# Quoin's image, for `docker buildx build` or `podman build`:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 \
#     --build-arg REVISION=$(git rev-parse HEAD) --build-arg DATE=$(git log -1 --format=%cI) --tag ghcr.io/quoin-dev/quoin:v0.1.0 .
#
# `make image` builds an equivalent image with hack/image, without a container engine. Both base
# images are pinned by digest.

# The builder runs on the build platform and cross-compiles.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm@sha256:dc9ad6c05acc7a88e5b71bde60a5fe3bd4b9f0db209011711b464107438a8107 AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOTOOLCHAIN=local

COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

# Only the sources of the binary, so that other changes do not invalidate the cache.
COPY cmd cmd
COPY api api
COPY apiserver apiserver
COPY docs docs
COPY gateway gateway
COPY controllers controllers
COPY internal internal
COPY plugin plugin

ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=""
ARG DATE=""
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X main.version=$VERSION -X main.commit=$REVISION -X main.date=$DATE" \
      -o /out/quoin ./cmd/quoin

# CA certificates, time zones, a non-root user; no shell and no package manager.
FROM gcr.io/distroless/static-debian13:nonroot@sha256:e2e927ec666bae08560abb3c55d0659eceabb657f56b6782ab500a9fc7f555e3
ARG VERSION=dev
ARG REVISION=""
LABEL org.opencontainers.image.title="Quoin" \
      org.opencontainers.image.description="Control plane for analytics deployments on Kubernetes" \
      org.opencontainers.image.source="https://github.com/quoin-dev/quoin" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION
COPY --from=build /out/quoin /usr/local/bin/quoin
# Numeric: Kubernetes cannot verify runAsNonRoot with a user name.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/quoin"]
