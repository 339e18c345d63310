// Package clitest tests the command lines of a program: those that every program has to have right, and scripts.
package clitest
