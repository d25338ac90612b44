module github.com/quoin-dev/quoin/hack/localcluster

go 1.26.0

