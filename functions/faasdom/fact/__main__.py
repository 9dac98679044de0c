def factors(n):
    found = []
    i = 1
    while i * i <= n:
        if n % i == 0:
            found.append(i)
            if i * i != n:
                found.append(n // i)
        i += 1
    found.sort()
    return found


def main(params):
    return {"factors": factors(params["n"])}
