#!/bin/bash
# Trains digits on a Slurm cluster: sbatch examples/cluster/slurm.sh /shared/digits
#
# Six tasks: a chief, an evaluator, a parameter server and three workers. Chief and workers have two
# towers each. A job that reaches its time limit gets SIGTERM 90 s before: the chief saves, and the
# same command goes on from there.
#SBATCH --job-name=digits
#SBATCH --nodes=2
#SBATCH --ntasks=6
#SBATCH --cpus-per-task=4
#SBATCH --signal=TERM@90

# The step ends two minutes after the first of its tasks: parameter servers never do by themselves.
srun --wait=120 python -m examples.cluster.slurm --workers 4 --ps 1 --model_dir "$1" --sync
