package main

import (
	"context"

	"github.com/redis/rueidis"
)

type rueidisClient struct{ rueidis.Client }

func openRueidis(_ context.Context, o options) (client, error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	settings := rueidis.ClientOption{InitAddress: o.addresses, Username: o.user, Password: o.password, TLSConfig: config}
	if o.resp == 2 {
		settings.AlwaysRESP2, settings.DisableCache = true, true // the cache requires RESP3
	}
	if o.mode == "sentinel" {
		settings.Sentinel = rueidis.SentinelOption{MasterSet: masterName, Username: o.user, Password: o.password, TLSConfig: config}
	}
	c, err := rueidis.NewClient(settings)
	return rueidisClient{c}, err
}

// completed permits retries, since by default rueidis repeats only commands that write nothing.
func (c rueidisClient) completed(args []string) rueidis.Completed {
	return c.B().Arbitrary(command).Keys(args[0]).Args(args[1:]...).Build().ToRetryable()
}

func (c rueidisClient) repeated(args []string, n int) []rueidis.Completed {
	list := make([]rueidis.Completed, n)
	for i := range list {
		list[i] = c.completed(args)
	}
	return list
}

func (c rueidisClient) throttle(ctx context.Context, args []string) ([]int64, error) {
	return c.Do(ctx, c.completed(args)).AsIntSlice()
}

func (c rueidisClient) pipeline(ctx context.Context, args []string, n int) ([][]int64, error) {
	return decisions(c.DoMulti(ctx, c.repeated(args, n)...))
}

func decisions(results []rueidis.RedisResult) (list [][]int64, err error) {
	list = make([][]int64, len(results))
	for i, r := range results {
		if list[i], err = r.AsIntSlice(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// transaction uses one connection, since rueidis shares its connections between callers.
func (c rueidisClient) transaction(ctx context.Context, args []string, n int) (list [][]int64, err error) {
	err = c.Dedicated(func(d rueidis.DedicatedClient) error {
		all := append([]rueidis.Completed{d.B().Multi().Build()}, c.repeated(args, n)...)
		results := d.DoMulti(ctx, append(all, d.B().Exec().Build())...)
		messages, err := results[len(results)-1].ToArray()
		if err != nil {
			return err
		}
		list = make([][]int64, len(messages))
		for i, message := range messages {
			if list[i], err = message.AsIntSlice(); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func (c rueidisClient) ownError(err error) bool {
	_, is := rueidis.IsRedisErr(err)
	return is
}
