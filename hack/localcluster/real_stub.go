package main

import (
	"context"
	"errors"
)

const (
	nodeName    = "localnode"
	realPodCIDR = "10.244.0.0/16"
	realPodMask = 24
)

type nodeNetwork struct{ address string }

func newNodeNetwork(dir string) nodeNetwork                { return nodeNetwork{} }
func (n nodeNetwork) create(ctx context.Context) error     { return errors.New("todo") }
func checkRealNode(context.Context, string, bool) error    { return errors.New("todo") }
func (c *cluster) startRealNode(ctx context.Context) error { return errors.New("todo") }
func (c *cluster) drainRealNode(ctx context.Context) error { return nil }
func (c *cluster) cleanRealNode(ctx context.Context) error { return nil }
func (c *cluster) startProduct(ctx context.Context) error  { return errors.New("todo") }
func runPush(ctx context.Context, args []string) error     { return errors.New("todo") }
