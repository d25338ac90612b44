package main

import (
	"context"
	"errors"
)

func (c *cluster) startProduct(ctx context.Context) error { return errors.New("todo") }
