def main(params):

    return {
        ]
