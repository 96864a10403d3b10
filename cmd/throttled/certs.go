package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/topology"
)

const certsText = `No other machine is contacted. The CA that signs the certificates is created if DIR has none. A
running node reloads its certificate when the files are replaced.`

// certsCommand holds the flags of "throttled certs".
type certsCommand struct {
	dir, cluster string
	days         int
	renew        bool
	nodes        []string
}

// bindCerts binds the command "throttled certs".
func bindCerts(f *flag.FlagSet) action {
	c := &certsCommand{}
	f.StringVar(&c.dir, "dir", "certs", "`DIR` for the files, created if necessary")
	f.StringVar(&c.cluster, "cluster", "", "`NAME` of the cluster, the cluster-id of its nodes")
	f.IntVar(&c.days, "days", certs.NodeDays, "`N` days of validity of the certificates of nodes")
	f.BoolVar(&c.renew, "renew", false, "replace existing certificates of nodes")
	return func(ctx context.Context, nodes []string, stdout, _ io.Writer) error {
		c.nodes = nodes
		if err := c.check(); err != nil {
			return &usageError{err}
		}
		return c.run(ctx, stdout)
	}
}

// check validates the flags before anything is written.
func (c *certsCommand) check() error {
	if c.cluster == "" {
		return errors.New("--cluster is missing: specify the cluster-id of the nodes")
	}
	if err := topology.CheckName(c.cluster); err != nil {
		return fmt.Errorf("--cluster %w", err)
	}
	if c.days < 1 || c.days > certs.MaxDays {
		return fmt.Errorf("--days %w", certs.ErrDays)
	}
	if len(c.nodes) == 0 {
		return errors.New("no node is specified: list the node-id of each node")
	}
	for i, node := range c.nodes {
		if err := certs.CheckFile(node); err != nil {
			return err
		}
		if slices.Contains(c.nodes[:i], node) {
			return fmt.Errorf("node %q is given twice", node)
		}
	}
	return nil
}

// run creates the files and prints their names.
func (c *certsCommand) run(ctx context.Context, stdout io.Writer) error {
	if err := c.checkFree(); err != nil {
		return err
	}
	now := time.Now()
	ca, made, err := c.authority(now)
	if err != nil {
		return err
	}
	caFile, caKey := certs.CAFiles(c.dir)
	text := fmt.Sprintf("CA %s, key %s (%s)\n", caFile, caKey, made)
	for _, node := range c.nodes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted before node %s, its certificate was not created: %w", node, err)
		}
		pair, err := ca.Issue(node, c.cluster, c.days, now)
		if err != nil {
			return err
		}
		if err := pair.Record(c.dir, certs.Name(node, c.cluster), now); err != nil {
			return err
		}
		if err := pair.Save(c.dir, node); err != nil {
			return err
		}
		certFile, keyFile := certs.Files(c.dir, node)
		text += fmt.Sprintf("node %s\n  copy these files to it: %s, %s and %s\n  start it with\n    --cluster-id %s --node-id %s --raft-tls-ca %s --raft-tls-cert %s --raft-tls-key %s\n",
			node, caFile, certFile, keyFile, c.cluster, node, caFile, certFile, keyFile)
	}
	_, err = fmt.Fprintf(stdout, "%sDo not copy %s to the nodes: certificates for nodes can be created with it.\n%s lists the serial numbers. To revoke a certificate, add its number to the file of raft-tls-revoked.\n",
		text, caKey, certs.IssuedFile(c.dir))
	return err
}

// checkFree returns an error if a certificate or key file of one of the nodes exists, because the node may be using the
// file. With --renew, checkFree always returns nil.
func (c *certsCommand) checkFree() error {
	if c.renew {
		return nil
	}
	for _, node := range c.nodes {
		certFile, keyFile := certs.Files(c.dir, node)
		for _, file := range []string{certFile, keyFile} {
			if _, err := os.Lstat(file); err == nil {
				return fmt.Errorf("%s already exists: specify --renew to replace it", file)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// authority loads the CA from the directory, or creates a CA if there is none. It returns made, a text for the output:
// "existing" if the CA was loaded, or "new" if it was created. The CA of another cluster is refused: nodes of either cluster
// would trust the CA of both.
func (c *certsCommand) authority(now time.Time) (ca *certs.CA, made string, err error) {
	ca, err = certs.LoadCA(c.dir, now)
	if err == nil {
		if err = ca.CheckCluster(c.cluster); err != nil {
			err = fmt.Errorf("certificates in %s: %w; specify another --dir, or correct --cluster", c.dir, err)
		}
		return ca, "existing", err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if ca, err = certs.NewCA(c.cluster, now); err != nil {
		return nil, "", err
	}
	return ca, "new", ca.Save(c.dir)
}
