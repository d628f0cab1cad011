"""Solves the equation of Poisson on N x N points (-n N) by a KSP of PETSc; prints milliseconds of an iteration.

Needs petsc4py. The other arguments are PETSc's: -ksp_type pipecg -pc_type jacobi -ksp_rtol 1e-6.
"""

import sys
from time import perf_counter

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402

N = PETSc.Options().getInt("n", 128)
NEIGHBOURS = ((0, 0, 4.0), (-1, 0, -1.0), (1, 0, -1.0), (0, -1, -1.0), (0, 1, -1.0))


def matrix() -> PETSc.Mat:
    grid = PETSc.DMDA().create([N, N], stencil_width=1)
    made = grid.createMatrix()
    row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
    (left, right), (low, high) = grid.getRanges()
    for j in range(low, high):
        for i in range(left, right):
            row.index = (i, j)
            for x, y, value in NEIGHBOURS:
                if 0 <= i + x < N and 0 <= j + y < N:
                    column.index = (i + x, j + y)
                    made.setValueStencil(row, column, value)
    made.assemble()
    return made


solver = PETSc.KSP().create()
solver.setOperators(matrix())
solver.setFromOptions()
x, b = solver.getOperators()[0].createVecs()
b.set(1.0)
times = []
for _ in range(6):
    x.set(0)
    PETSc.COMM_WORLD.barrier()
    begin = perf_counter()
    solver.solve(b, x)
    PETSc.COMM_WORLD.barrier()
    times.append(1e3 * (perf_counter() - begin) / solver.getIterationNumber())
PETSc.Sys.Print(
    f"{solver.getType()}: {solver.getIterationNumber()} iterations, ms each:",
    *(f"{one:.3f}" for one in sorted(times[1:])),
    f"norm {x.norm():.6e}",
)
