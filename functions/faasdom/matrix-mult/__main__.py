# Written out at length where a helper would do: numba compiles it as it stands, without lists crossing a call.
def total_of_product(n, seed):
    a = [[0] * n for _ in range(n)]
    b = [[0] * n for _ in range(n)]
    product = [[0] * n for _ in range(n)]
    state = seed
    for i in range(n):
        for j in range(n):
            state = state * 16807 % 2147483647
            a[i][j] = state % 100
    for i in range(n):
        for j in range(n):
            state = state * 16807 % 2147483647
            b[i][j] = state % 100
    for i in range(n):
        for j in range(n):
            cell = 0
            for k in range(n):
                cell += a[i][k] * b[k][j]
            product[i][j] = cell
    total = 0
    for row in product:
        for cell in row:
            total += cell
    return total


def main(params):
    return {"total": total_of_product(params["n"], params["seed"])}
