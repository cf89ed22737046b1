package simulate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		play := Jobs(time.Minute, func(j *batchv1.Job) bool { return j.Name == "bad" })
		job := func(name string) *batchv1.Job {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			require.NoError(t, server.Get(j))
			return j
		}
		expect := func(want time.Duration) {
			t.Helper()
			again, err := play(server)
			require.NoError(t, err)
			assert.Equal(t, want, again)
		}
		for _, name := range []string{"good", "bad", "paused"} {
			require.NoError(t, server.Create(&batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec:       batchv1.JobSpec{Parallelism: new(int32(2)), Completions: new(int32(3)), Suspend: new(name == "paused")},
			}))
		}
		expect(time.Minute)
		assert.EqualValues(t, 2, job("good").Status.Active)
		assert.NotNil(t, job("good").Status.StartTime)
		assert.Nil(t, job("paused").Status.StartTime)

		<-time.After(20 * time.Second)
		expect(40 * time.Second) // the time that is left
		assert.Empty(t, job("bad").Status.Conditions)

		suspend := func(yes bool) {
			good := job("good")
			good.Spec.Suspend = &yes
			require.NoError(t, server.Update(good))
		}
		suspend(true)
		expect(40 * time.Second)
		assert.Zero(t, job("good").Status.Active, "a Job that is suspended while it runs")
		suspend(false)
		expect(40 * time.Second)

		<-time.After(40 * time.Second)
		expect(20 * time.Second)
		bad := job("bad").Status
		require.Len(t, bad.Conditions, 1)
		assert.Equal(t, batchv1.JobFailed, bad.Conditions[0].Type)
		assert.Zero(t, bad.Active)

		<-time.After(20 * time.Second)
		expect(0)
		status := job("good").Status
		require.Len(t, status.Conditions, 1)
		assert.Equal(t, batchv1.JobComplete, status.Conditions[0].Type, "a Job begins again when it is resumed")
		assert.EqualValues(t, 3, status.Succeeded)
		assert.NotNil(t, status.CompletionTime)

		before := server.ResourceVersion()
		expect(0)
		assert.Equal(t, before, server.ResourceVersion(), "nothing is left to do")
	})
}

func TestNumbersAndEndsOfJobs(t *testing.T) {
	for _, one := range []struct {
		name string
		spec batchv1.JobSpec
		// states are those after the start, after a minute and 20 seconds later: the active and the succeeded pods.
		states [3]string
	}{
		{name: "no numbers", states: [3]string{"1 0", "0 1 ended", "0 1 ended"}},
		{name: "more in parallel than completions", spec: batchv1.JobSpec{Parallelism: new(int32(5)), Completions: new(int32(2))}, states: [3]string{"2 0", "0 2 ended", "0 2 ended"}},
		{name: "nothing to complete", spec: batchv1.JobSpec{Completions: new(int32(0))}, states: [3]string{"0 0", "0 0 ended", "0 0 ended"}},
		{name: "paused by its parallelism", spec: batchv1.JobSpec{Parallelism: new(int32(0)), Completions: new(int32(2))}, states: [3]string{"0 0", "0 0", "0 0"}},
		{name: "of another controller", spec: batchv1.JobSpec{ManagedBy: new("example.com/mine")}, states: [3]string{"0 0", "0 0", "0 0"}},
		{name: "of this controller", spec: batchv1.JobSpec{ManagedBy: new(batchv1.JobControllerName)}, states: [3]string{"1 0", "0 1 ended", "0 1 ended"}},
		{name: "a time to live", spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(20))}, states: [3]string{"1 0", "0 1 ended", "gone"}},
		{name: "a longer time to live", spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(21))}, states: [3]string{"1 0", "0 1 ended", "0 1 ended"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := reflectortest.Start(t)
				j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"}, Spec: one.spec}
				require.NoError(t, s.Create(j))
				for i, pause := range []time.Duration{0, time.Minute, 20 * time.Second} {
					<-time.After(pause)
					settle(t, s, Jobs(time.Minute, nil))
					for s.CollectGarbage() {
					}
					got := "gone"
					if s.Get(j) == nil {
						got = fmt.Sprint(j.Status.Active, j.Status.Succeeded)
						if jobEnd(j) != nil {
							got += " ended"
						}
					}
					assert.Equal(t, one.states[i], got)
				}
			})
		})
	}
}
