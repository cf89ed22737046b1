package simulated

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

var leaderPairs = []pair{
	{
		name:     "ports that were read before the process led",
		operator: portsOfAStandby,
		elected:  true,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), create("b")}},
		line:     "crash after update sites/status default/a#1; standby behind update sites/status default/a#1",
		says:     `Site default/b: .status.port is 8000, undisturbed 8001`,
	},
	{
		name:     "a manager that outlives its lease",
		main:     electedManager,
		scenario: simulate.Scenario{Steps: imageSteps},
		line:     "lease lost at update sites/status default/a#1",
		says:     "a process writes to sites/status default/a after it has lost its lease and another process has it",
	},
}

// portsOfAStandby gives each site the lowest free port. A process that waits for its lease has read the
// ports of long ago by then, so only one that leads may read them.
func portsOfAStandby(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	taken := map[int]string{} // the site of a port
	read := make(chan struct{})
	load := func(ctx context.Context) error {
		defer close(read)
		all := &SiteList{}
		if err := mgr.GetAPIReader().List(ctx, all); err != nil {
			return err
		}
		for _, s := range all.Items {
			taken[s.Status.Port] = s.Name
		}
		return nil
	}
	var add manager.Runnable = manager.RunnableFunc(load) // in the leader
	if buggy {
		add = everywhere(load)
	}
	if err := mgr.Add(add); err != nil {
		return err
	}
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		<-read
		if s.Status.Port != 0 {
			return ctrl.Result{}, nil
		}
		current := &Site{}
		if err := mgr.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(s), current); err != nil || current.Status.Port != 0 {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		port := 8000
		for taken[port] != "" && taken[port] != s.Name {
			port++
		}
		taken[port] = s.Name
		current.Status.Port = port
		return ctrl.Result{}, c.Status().Update(ctx, current)
	})
}

// everywhere is a Runnable of each process, whether it leads or not.
type everywhere func(context.Context) error

func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

func (e everywhere) NeedLeaderElection() bool { return false }

// electedManager reports the image in the status. It runs client-go's election around its manager, which
// has to end with the term.
func electedManager(buggy bool) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, cfg *rest.Config) error {
		set, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		lead := func(term context.Context) {
			if buggy {
				term = ctx
			}
			ended <- run(statusOfImage)(term, cfg)
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "sites"}, Client: set.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: rand.Text()},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return <-ended // its term is over
	}
}

func statusOfImage(mgr ctrl.Manager) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		if s.Status.Image == s.Spec.Image {
			return ctrl.Result{}, nil
		}
		s.Status.Image = s.Spec.Image
		return ctrl.Result{}, c.Status().Update(ctx, s)
	})
}
