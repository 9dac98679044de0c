/* A program: standard input in capitals. */
#include <ctype.h>
#include <stdio.h>

int main(void) {
    for (int c; (c = getchar()) != EOF;) putchar(toupper(c));
    return 0;
}
